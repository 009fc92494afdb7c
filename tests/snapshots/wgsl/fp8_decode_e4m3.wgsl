@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn fp8_decode_e4m3(@builtin(workgroup_id) v234: vec3<u32>, @builtin(num_workgroups) v236: vec3<u32>, @builtin(local_invocation_index) v243: u32) {
let v264 = &v5;
let v265 = &v1;
let v163 = info_var.static_meta[0];
let v9 = info_var.scalars_usize[0];
let v235 = v234[2];
let v166 = u32(v235);
let v237 = v236[1];
let v168 = u32(v237);
let v169 = v166 * v168;
let v238 = v236[0];
let v171 = u32(v238);
let v172 = v169 * v171;
let v239 = v234[1];
let v174 = u32(v239);
let v177 = v174 * v171;
let v178 = v172 + v177;
let v241 = v234[0];
let v180 = u32(v241);
let v181 = v178 + v180;
let v261 = u32(64);
let v184 = v181 * v261;
let v244 = v243;
let v186 = u32(v244);
let v187 = v184 + v186;
let v12 = v187 < v163;
if v12 {
let v14 = u32(4);
let v15 = v187 * v14;
let v20 = &(*v265)[v187];
let v21 = *v20;
let v24 = v15 < v9;
if v24 {
let v27 = u32(255);
let v28 = v21 & v27;
let v29 = u32(128);
let v30 = v28 & v29;
let v31 = u32(24);
let v32 = v30 << u32(v31);
let v33 = u32(127);
let v34 = v28 & v33;
let v35 = u32(20);
let v36 = v34 << u32(v35);
let v37 = u32(1006632960);
let v38 = v36 + v37;
let v39 = f32(v34);
let v40 = f32(0.001953125);
let v41 = v39 * v40;
let v42 = bitcast<u32>(v41);
let v43 = u32(8);
let v44 = v34 < v43;
let v45 = select(v38, v42, v44);
let v47 = v34 >= v33;
let v48 = u32(2143289344);
let v49 = select(v45, v48, v47);
let v50 = v32 | v49;
let v56 = &(*v264)[v15];
*v56 = v50;

}
let v57 = u32(1);
let v58 = v15 + v57;
let v59 = v58 < v9;
if v59 {
let v60 = u32(8);
let v61 = v21 >> u32(v60);
let v62 = u32(255);
let v63 = v61 & v62;
let v64 = u32(128);
let v65 = v63 & v64;
let v66 = u32(24);
let v67 = v65 << u32(v66);
let v68 = u32(127);
let v69 = v63 & v68;
let v70 = u32(20);
let v71 = v69 << u32(v70);
let v72 = u32(1006632960);
let v73 = v71 + v72;
let v74 = f32(v69);
let v75 = f32(0.001953125);
let v76 = v74 * v75;
let v77 = bitcast<u32>(v76);
let v79 = v69 < v60;
let v80 = select(v73, v77, v79);
let v82 = v69 >= v68;
let v83 = u32(2143289344);
let v84 = select(v80, v83, v82);
let v85 = v67 | v84;
let v91 = &(*v264)[v58];
*v91 = v85;

}
let v92 = u32(2);
let v93 = v15 + v92;
let v94 = v93 < v9;
if v94 {
let v95 = u32(16);
let v96 = v21 >> u32(v95);
let v97 = u32(255);
let v98 = v96 & v97;
let v99 = u32(128);
let v100 = v98 & v99;
let v101 = u32(24);
let v102 = v100 << u32(v101);
let v103 = u32(127);
let v104 = v98 & v103;
let v105 = u32(20);
let v106 = v104 << u32(v105);
let v107 = u32(1006632960);
let v108 = v106 + v107;
let v109 = f32(v104);
let v110 = f32(0.001953125);
let v111 = v109 * v110;
let v112 = bitcast<u32>(v111);
let v113 = u32(8);
let v114 = v104 < v113;
let v115 = select(v108, v112, v114);
let v117 = v104 >= v103;
let v118 = u32(2143289344);
let v119 = select(v115, v118, v117);
let v120 = v102 | v119;
let v126 = &(*v264)[v93];
*v126 = v120;

}
let v127 = u32(3);
let v128 = v15 + v127;
let v129 = v128 < v9;
if v129 {
let v130 = u32(24);
let v131 = v21 >> u32(v130);
let v132 = u32(255);
let v133 = v131 & v132;
let v134 = u32(128);
let v135 = v133 & v134;
let v137 = v135 << u32(v130);
let v138 = u32(127);
let v139 = v133 & v138;
let v140 = u32(20);
let v141 = v139 << u32(v140);
let v142 = u32(1006632960);
let v143 = v141 + v142;
let v144 = f32(v139);
let v145 = f32(0.001953125);
let v146 = v144 * v145;
let v147 = bitcast<u32>(v146);
let v148 = u32(8);
let v149 = v139 < v148;
let v150 = select(v143, v147, v149);
let v152 = v139 >= v138;
let v153 = u32(2143289344);
let v154 = select(v150, v153, v152);
let v155 = v137 | v154;
let v161 = &(*v264)[v128];
*v161 = v155;

}

}
return;

}

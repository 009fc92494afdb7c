@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn fp8_decode_e4m3(@builtin(workgroup_id) v250: vec3<u32>, @builtin(num_workgroups) v252: vec3<u32>, @builtin(local_invocation_index) v259: u32) {
let v280 = &v5;
let v281 = &v1;
let v179 = info_var.static_meta[0];
let v9 = info_var.scalars_usize[0];
let v251 = v250[2];
let v182 = u32(v251);
let v253 = v252[1];
let v184 = u32(v253);
let v185 = v182 * v184;
let v254 = v252[0];
let v187 = u32(v254);
let v188 = v185 * v187;
let v255 = v250[1];
let v190 = u32(v255);
let v193 = v190 * v187;
let v194 = v188 + v193;
let v257 = v250[0];
let v196 = u32(v257);
let v197 = v194 + v196;
let v277 = u32(64);
let v200 = v197 * v277;
let v260 = v259;
let v202 = u32(v260);
let v203 = v200 + v202;
let v12 = v203 < v179;
if v12 {
let v14 = u32(4);
let v15 = v203 * v14;
let v20 = &(*v281)[v203];
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
let v41 = u32(1015021568);
let v42 = v36 + v41;
let v43 = bitcast<f32>(v42);
let v44 = f32(0.015625);
let v45 = v43 - v44;
let v46 = bitcast<u32>(v45);
let v47 = u32(8);
let v48 = v34 < v47;
let v49 = select(v38, v46, v48);
let v51 = v34 >= v33;
let v52 = u32(2143289344);
let v53 = select(v49, v52, v51);
let v54 = v32 | v53;
let v60 = &(*v280)[v15];
*v60 = v54;

}
let v61 = u32(1);
let v62 = v15 + v61;
let v63 = v62 < v9;
if v63 {
let v64 = u32(8);
let v65 = v21 >> u32(v64);
let v66 = u32(255);
let v67 = v65 & v66;
let v68 = u32(128);
let v69 = v67 & v68;
let v70 = u32(24);
let v71 = v69 << u32(v70);
let v72 = u32(127);
let v73 = v67 & v72;
let v74 = u32(20);
let v75 = v73 << u32(v74);
let v76 = u32(1006632960);
let v77 = v75 + v76;
let v80 = u32(1015021568);
let v81 = v75 + v80;
let v82 = bitcast<f32>(v81);
let v83 = f32(0.015625);
let v84 = v82 - v83;
let v85 = bitcast<u32>(v84);
let v87 = v73 < v64;
let v88 = select(v77, v85, v87);
let v90 = v73 >= v72;
let v91 = u32(2143289344);
let v92 = select(v88, v91, v90);
let v93 = v71 | v92;
let v99 = &(*v280)[v62];
*v99 = v93;

}
let v100 = u32(2);
let v101 = v15 + v100;
let v102 = v101 < v9;
if v102 {
let v103 = u32(16);
let v104 = v21 >> u32(v103);
let v105 = u32(255);
let v106 = v104 & v105;
let v107 = u32(128);
let v108 = v106 & v107;
let v109 = u32(24);
let v110 = v108 << u32(v109);
let v111 = u32(127);
let v112 = v106 & v111;
let v113 = u32(20);
let v114 = v112 << u32(v113);
let v115 = u32(1006632960);
let v116 = v114 + v115;
let v119 = u32(1015021568);
let v120 = v114 + v119;
let v121 = bitcast<f32>(v120);
let v122 = f32(0.015625);
let v123 = v121 - v122;
let v124 = bitcast<u32>(v123);
let v125 = u32(8);
let v126 = v112 < v125;
let v127 = select(v116, v124, v126);
let v129 = v112 >= v111;
let v130 = u32(2143289344);
let v131 = select(v127, v130, v129);
let v132 = v110 | v131;
let v138 = &(*v280)[v101];
*v138 = v132;

}
let v139 = u32(3);
let v140 = v15 + v139;
let v141 = v140 < v9;
if v141 {
let v142 = u32(24);
let v143 = v21 >> u32(v142);
let v144 = u32(255);
let v145 = v143 & v144;
let v146 = u32(128);
let v147 = v145 & v146;
let v149 = v147 << u32(v142);
let v150 = u32(127);
let v151 = v145 & v150;
let v152 = u32(20);
let v153 = v151 << u32(v152);
let v154 = u32(1006632960);
let v155 = v153 + v154;
let v158 = u32(1015021568);
let v159 = v153 + v158;
let v160 = bitcast<f32>(v159);
let v161 = f32(0.015625);
let v162 = v160 - v161;
let v163 = bitcast<u32>(v162);
let v164 = u32(8);
let v165 = v151 < v164;
let v166 = select(v155, v163, v165);
let v168 = v151 >= v150;
let v169 = u32(2143289344);
let v170 = select(v166, v169, v168);
let v171 = v149 | v170;
let v177 = &(*v280)[v140];
*v177 = v171;

}

}
return;

}

@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn fp8_decode_e5m2(@builtin(workgroup_id) v262: vec3<u32>, @builtin(num_workgroups) v264: vec3<u32>, @builtin(local_invocation_index) v271: u32) {
let v292 = &v5;
let v293 = &v1;
let v191 = info_var.static_meta[0];
let v9 = info_var.scalars_usize[0];
let v263 = v262[2];
let v194 = u32(v263);
let v265 = v264[1];
let v196 = u32(v265);
let v197 = v194 * v196;
let v266 = v264[0];
let v199 = u32(v266);
let v200 = v197 * v199;
let v267 = v262[1];
let v202 = u32(v267);
let v205 = v202 * v199;
let v206 = v200 + v205;
let v269 = v262[0];
let v208 = u32(v269);
let v209 = v206 + v208;
let v289 = u32(64);
let v212 = v209 * v289;
let v272 = v271;
let v214 = u32(v272);
let v215 = v212 + v214;
let v12 = v215 < v191;
if v12 {
let v14 = u32(4);
let v15 = v215 * v14;
let v20 = &(*v293)[v215];
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
let v35 = u32(21);
let v36 = v34 << u32(v35);
let v37 = u32(939524096);
let v38 = v36 + v37;
let v41 = u32(947912704);
let v42 = v36 + v41;
let v43 = bitcast<f32>(v42);
let v44 = f32(6.103515625e-5);
let v45 = v43 - v44;
let v46 = bitcast<u32>(v45);
let v47 = u32(4);
let v48 = v34 < v47;
let v49 = select(v38, v46, v48);
let v52 = u32(1879048192);
let v53 = v36 + v52;
let v54 = u32(124);
let v55 = v34 >= v54;
let v56 = select(v49, v53, v55);
let v57 = v32 | v56;
let v63 = &(*v292)[v15];
*v63 = v57;

}
let v64 = u32(1);
let v65 = v15 + v64;
let v66 = v65 < v9;
if v66 {
let v67 = u32(8);
let v68 = v21 >> u32(v67);
let v69 = u32(255);
let v70 = v68 & v69;
let v71 = u32(128);
let v72 = v70 & v71;
let v73 = u32(24);
let v74 = v72 << u32(v73);
let v75 = u32(127);
let v76 = v70 & v75;
let v77 = u32(21);
let v78 = v76 << u32(v77);
let v79 = u32(939524096);
let v80 = v78 + v79;
let v83 = u32(947912704);
let v84 = v78 + v83;
let v85 = bitcast<f32>(v84);
let v86 = f32(6.103515625e-5);
let v87 = v85 - v86;
let v88 = bitcast<u32>(v87);
let v89 = u32(4);
let v90 = v76 < v89;
let v91 = select(v80, v88, v90);
let v94 = u32(1879048192);
let v95 = v78 + v94;
let v96 = u32(124);
let v97 = v76 >= v96;
let v98 = select(v91, v95, v97);
let v99 = v74 | v98;
let v105 = &(*v292)[v65];
*v105 = v99;

}
let v106 = u32(2);
let v107 = v15 + v106;
let v108 = v107 < v9;
if v108 {
let v109 = u32(16);
let v110 = v21 >> u32(v109);
let v111 = u32(255);
let v112 = v110 & v111;
let v113 = u32(128);
let v114 = v112 & v113;
let v115 = u32(24);
let v116 = v114 << u32(v115);
let v117 = u32(127);
let v118 = v112 & v117;
let v119 = u32(21);
let v120 = v118 << u32(v119);
let v121 = u32(939524096);
let v122 = v120 + v121;
let v125 = u32(947912704);
let v126 = v120 + v125;
let v127 = bitcast<f32>(v126);
let v128 = f32(6.103515625e-5);
let v129 = v127 - v128;
let v130 = bitcast<u32>(v129);
let v131 = u32(4);
let v132 = v118 < v131;
let v133 = select(v122, v130, v132);
let v136 = u32(1879048192);
let v137 = v120 + v136;
let v138 = u32(124);
let v139 = v118 >= v138;
let v140 = select(v133, v137, v139);
let v141 = v116 | v140;
let v147 = &(*v292)[v107];
*v147 = v141;

}
let v148 = u32(3);
let v149 = v15 + v148;
let v150 = v149 < v9;
if v150 {
let v151 = u32(24);
let v152 = v21 >> u32(v151);
let v153 = u32(255);
let v154 = v152 & v153;
let v155 = u32(128);
let v156 = v154 & v155;
let v158 = v156 << u32(v151);
let v159 = u32(127);
let v160 = v154 & v159;
let v161 = u32(21);
let v162 = v160 << u32(v161);
let v163 = u32(939524096);
let v164 = v162 + v163;
let v167 = u32(947912704);
let v168 = v162 + v167;
let v169 = bitcast<f32>(v168);
let v170 = f32(6.103515625e-5);
let v171 = v169 - v170;
let v172 = bitcast<u32>(v171);
let v173 = u32(4);
let v174 = v160 < v173;
let v175 = select(v164, v172, v174);
let v178 = u32(1879048192);
let v179 = v162 + v178;
let v180 = u32(124);
let v181 = v160 >= v180;
let v182 = select(v175, v179, v181);
let v183 = v158 | v182;
let v189 = &(*v292)[v149];
*v189 = v183;

}

}
return;

}

@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn fp8_decode_e4m3(@builtin(workgroup_id) v281: vec3<u32>, @builtin(num_workgroups) v283: vec3<u32>, @builtin(local_invocation_index) v290: u32) {
let v311 = &v5;
let v312 = &v1;
let v208 = info_var.static_meta[0];
let v9 = info_var.scalars_usize[0];
let v282 = v281[2];
let v213 = u32(v282);
let v284 = v283[1];
let v215 = u32(v284);
let v216 = v213 * v215;
let v285 = v283[0];
let v218 = u32(v285);
let v219 = v216 * v218;
let v286 = v281[1];
let v221 = u32(v286);
let v224 = v221 * v218;
let v225 = v219 + v224;
let v288 = v281[0];
let v227 = u32(v288);
let v228 = v225 + v227;
let v308 = u32(64);
let v231 = v228 * v308;
let v291 = v290;
let v233 = u32(v291);
let v234 = v231 + v233;
let v12 = v234 < v208;
if v12 {
let v14 = u32(4);
let v15 = v234 * v14;
let v20 = &(*v312)[v234];
let v21 = *v20;
let v22 = f32(0.0);
let v23 = vec4<f32>(v22);
var<function> v210_store: vec4<f32>;
let v210 = &v210_store;
*v210 = v23;
var<function> v211_store: vec4<f32>;
let v211 = &v211_store;
let v26 = *v210;
*v211 = v26;
let v29 = u32(255);
let v30 = v21 & v29;
let v31 = u32(128);
let v32 = v30 & v31;
let v33 = u32(24);
let v34 = v32 << u32(v33);
let v35 = u32(127);
let v36 = v30 & v35;
let v37 = u32(20);
let v38 = v36 << u32(v37);
let v39 = u32(1006632960);
let v40 = v38 + v39;
let v43 = u32(1015021568);
let v44 = v38 + v43;
let v45 = bitcast<f32>(v44);
let v46 = f32(0.015625);
let v47 = v45 - v46;
let v48 = bitcast<u32>(v47);
let v49 = u32(8);
let v50 = v36 < v49;
let v51 = select(v40, v48, v50);
let v53 = v36 >= v35;
let v54 = u32(2143289344);
let v55 = select(v51, v54, v53);
let v56 = v34 | v55;
let v57 = bitcast<f32>(v56);
let v58 = *v211;
let v59 = vec4<f32>(v57, v58[1], v58[2], v58[3]);
*v211 = v59;
let v61 = v21 >> u32(v49);
let v63 = v61 & v29;
let v65 = v63 & v31;
let v67 = v65 << u32(v33);
let v69 = v63 & v35;
let v71 = v69 << u32(v37);
let v73 = v71 + v39;
let v77 = v71 + v43;
let v78 = bitcast<f32>(v77);
let v80 = v78 - v46;
let v81 = bitcast<u32>(v80);
let v83 = v69 < v49;
let v84 = select(v73, v81, v83);
let v86 = v69 >= v35;
let v88 = select(v84, v54, v86);
let v89 = v67 | v88;
let v90 = bitcast<f32>(v89);
let v91 = *v211;
let v92 = vec4<f32>(v91[0], v90, v91[2], v91[3]);
*v211 = v92;
let v93 = u32(16);
let v94 = v21 >> u32(v93);
let v96 = v94 & v29;
let v98 = v96 & v31;
let v100 = v98 << u32(v33);
let v102 = v96 & v35;
let v104 = v102 << u32(v37);
let v106 = v104 + v39;
let v110 = v104 + v43;
let v111 = bitcast<f32>(v110);
let v113 = v111 - v46;
let v114 = bitcast<u32>(v113);
let v116 = v102 < v49;
let v117 = select(v106, v114, v116);
let v119 = v102 >= v35;
let v121 = select(v117, v54, v119);
let v122 = v100 | v121;
let v123 = bitcast<f32>(v122);
let v124 = *v211;
let v125 = vec4<f32>(v124[0], v124[1], v123, v124[3]);
*v211 = v125;
let v127 = v21 >> u32(v33);
let v129 = v127 & v29;
let v131 = v129 & v31;
let v133 = v131 << u32(v33);
let v135 = v129 & v35;
let v137 = v135 << u32(v37);
let v139 = v137 + v39;
let v143 = v137 + v43;
let v144 = bitcast<f32>(v143);
let v146 = v144 - v46;
let v147 = bitcast<u32>(v146);
let v149 = v135 < v49;
let v150 = select(v139, v147, v149);
let v152 = v135 >= v35;
let v154 = select(v150, v54, v152);
let v155 = v133 | v154;
let v156 = bitcast<f32>(v155);
let v157 = *v211;
let v158 = vec4<f32>(v157[0], v157[1], v157[2], v156);
*v211 = v158;
let v161 = v15 < v9;
if v161 {
let v162 = *v211;
let v163 = v162[0];
let v164 = bitcast<u32>(v163);
let v170 = &(*v311)[v15];
*v170 = v164;

}
let v171 = u32(1);
let v172 = v15 + v171;
let v173 = v172 < v9;
if v173 {
let v174 = *v211;
let v175 = v174[1];
let v176 = bitcast<u32>(v175);
let v182 = &(*v311)[v172];
*v182 = v176;

}
let v183 = u32(2);
let v184 = v15 + v183;
let v185 = v184 < v9;
if v185 {
let v186 = *v211;
let v187 = v186[2];
let v188 = bitcast<u32>(v187);
let v194 = &(*v311)[v184];
*v194 = v188;

}
let v195 = u32(3);
let v196 = v15 + v195;
let v197 = v196 < v9;
if v197 {
let v198 = *v211;
let v199 = v198[3];
let v200 = bitcast<u32>(v199);
let v206 = &(*v311)[v196];
*v206 = v200;

}

}
return;

}
